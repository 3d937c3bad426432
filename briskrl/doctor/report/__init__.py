"""The doctor's report as data, in the terminal and as a web page."""
