"""Does a model fit, how, and what does its cache hold."""
