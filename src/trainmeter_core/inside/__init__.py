"""The agent: what runs inside each training interpreter; standard library only."""
