"""From findings to what to change, in the forms in which a user can apply it."""
