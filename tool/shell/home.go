package shell

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/supervise"
)

// home returns the directory of a session's home and temporary files; empty: it has none that
// lasts.
func (b *Bash) home(id perdure.SessionID) string {
	if b.homes == "" {
		return ""
	}
	return homeDir(b.homes, id)
}

// homeDir returns the directory of a session in a Config.HomesDir. It has the name of the session,
// or a hash of an id that is not a plain name.
func homeDir(homes string, id perdure.SessionID) string {
	name := string(id)
	if parsed, err := perdure.ParseID[perdure.SessionID](name); err != nil || string(parsed) != name {
		sum := sha256.Sum256([]byte(name))
		name = hex.EncodeToString(sum[:16])
	}
	return filepath.Join(homes, name)
}

// RemoveHome removes HOME and the temporary files of a session that has no commands any more from a
// Config.HomesDir. It does nothing if the session has none.
func RemoveHome(homes string, id perdure.SessionID) error {
	if err := supervise.RemoveHome(homeDir(homes, id)); err != nil {
		return fmt.Errorf("remove the home of session %s: %w", id, err)
	}
	return nil
}
