"""What of a project is sent to the engine, looked at before it is."""
