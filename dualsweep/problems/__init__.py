"""What is minimised: problems of two classes and of many, and what is known of a solution."""
