"""The pages: routes, one file for each part of the app, and the frame that all share."""
