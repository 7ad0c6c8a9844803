"""What a person sees: progress while the network learns, pictures of what it found."""
