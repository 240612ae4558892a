"""What the events amount to: frames, compilations, guards and where they come from."""
