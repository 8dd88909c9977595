"""What Headwater computes and keeps. Nothing in here knows the pages."""
