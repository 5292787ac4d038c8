"""How it is minimised: sweeps, momentum and Newton steps, one run and one certificate."""
