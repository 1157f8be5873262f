"""What a clone has and a wheel has not: the demo, and the S3 server of demo, tests and benches."""
