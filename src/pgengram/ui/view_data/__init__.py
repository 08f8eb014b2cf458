"""What the pages show and change: answers, drawings, and jobs in the background."""
