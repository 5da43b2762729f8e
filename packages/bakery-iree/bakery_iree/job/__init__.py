"""Job file or command line → plan of a job. All problems of the file are reported at once; no engine is needed."""
