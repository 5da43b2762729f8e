"""From a job file, or the command line, to the plan of a job; every problem at once, and no engine."""
