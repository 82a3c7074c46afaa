package home

// socketPathMax is sun_path without its NUL (unix(7)).
const socketPathMax = 107

// systemRuntime is where a gateway under its own uid listens.
const systemRuntime = "/run/" + Product
