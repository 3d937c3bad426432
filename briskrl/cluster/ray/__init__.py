"""Jobs on a Ray cluster; imports Ray only when one is used."""
