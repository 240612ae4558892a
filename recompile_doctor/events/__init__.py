"""Any log of torch.compile, as one stream of typed events."""
