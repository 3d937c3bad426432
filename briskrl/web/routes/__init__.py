"""Routes of the page, by what they show."""
