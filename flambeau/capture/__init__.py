"""Records a function's operator calls into one graph and replays it while its guards hold."""
