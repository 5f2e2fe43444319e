package host

import (
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/internal/sessionsql"
)

// BlobConfig configures where sessions store data outside the store, if the engine uses the store's
// own ports. The zero value stores nothing there. The host opens and closes it. The host also
// removes the data of deleted sessions: databases with Forget, blobs by garbage collection.
type BlobConfig struct {
	Blobs *blob.Store       // the bytes of large images; nil: the store keeps them
	SQL   *sessionsql.Store // the sessions' own databases; nil: sessions have none
}
