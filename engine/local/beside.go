package local

import (
	"github.com/perdure/perdure/internal/blob"
	"github.com/perdure/perdure/internal/sessionsql"
)

// Beside is what sessions keep beside the store, where the ports are the store's own. The zero value is nothing. The host opens
// and closes it, and sees to it that a session which is deleted leaves nothing there: the databases by Forget, the blobs by
// collecting them.
type Beside struct {
	Blobs *blob.Store       // the bytes of large images; nil: the store keeps them
	SQL   *sessionsql.Store // databases of the session's own; nil: it has none
}
