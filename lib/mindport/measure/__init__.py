"""What is measured, and by what: useful operations by formula, the machine's peak, this process's memory."""
