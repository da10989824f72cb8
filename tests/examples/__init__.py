"""The examples are programs that users copy from: they run here, and must do what they say."""
