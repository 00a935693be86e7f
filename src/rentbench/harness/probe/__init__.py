"""What the machine is: probed before a run, each question with a time limit, never an error."""
