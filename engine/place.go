package engine

// Place says where an engine keeps its sessions, so that a caller who names a place can see whether it is that one. It tells
// neither where the place is nor any password: two are equal, or they are not.
type Place struct {
	Store     string `json:"store"`     // sqlite or postgres
	ID        string `json:"id"`        // of the database: the same under every name and address that leads to it
	Directory string `json:"directory"` // of the data directory on its machine, likewise
}
