"""Many runs, on this machine or on several: jobs, executors, sweeps and replicas."""
