// Package home says where the product's files lie and makes their folders
// private before anything is in them.
//
// Linux follows the XDG base directories:
//
//	data     $XDG_DATA_HOME/sallyport    vault.db, audit.pub, audit/, spd.log, spd.lock
//	config   $XDG_CONFIG_HOME/sallyport  spd.toml, pins/
//	runtime  $XDG_RUNTIME_DIR/sallyport  agent.sock, operator.addr
//
// Hosts start the shim with a stripped environment, so an XDG_RUNTIME_DIR that
// is unset, or no private folder of ours, is replaced by /run/user/UID where
// that is one, else by the data folder. A client also looks into /run/sallyport,
// where a gateway under its own uid listens.
//
// macOS puts data, config and runtime into
// ~/Library/Application Support/Sallyport. SALLYPORT_HOME, an absolute path, puts
// everything into that one folder on every system.
//
// Folders are 0700, of our own uid and no symlinks; files are 0600. A gateway
// that runs under its own uid for another user (spd serve --serve-uid) has its
// sockets in /run/sallyport, 0710 and of that user's group.
package home
