package home

// socketPathMax is sun_path without its NUL (unix(7)).
const socketPathMax = 107
