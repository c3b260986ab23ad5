"""What is wrong with a repository, in each form in which it is shown."""
