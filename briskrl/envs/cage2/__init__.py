"""CAGE-2 cyber defence (CybORG Scenario2), exact, all networks of a batch stepped together."""
