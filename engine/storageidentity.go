package engine

// StorageIdentity identifies the storage of an engine, so that a caller can check whether another
// engine uses the same one. Places can only be compared: they reveal neither an address nor a
// password.
type StorageIdentity struct {
	Store     string `json:"store"`     // sqlite or postgres
	ID        string `json:"id"`        // of the database; independent of the name or address it is reached by
	Directory string `json:"directory"` // of the data directory on its machine; independent of its path
}
