"""What a training prints, on its way to ``console.log`` and to the screen."""
