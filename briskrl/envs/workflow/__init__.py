"""Any vector environment with a workflow to obey: conditioning, compliance and bonus."""
