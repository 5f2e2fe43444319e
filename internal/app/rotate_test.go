package app

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/internal/cli/admin"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// TestRotateKey checks that all encrypted data of a data directory uses the new key: secrets, keys
// and tokens.
func TestRotateKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, err := secret.Create(filepath.Join(dir, backup.KeyringFile))
	if err != nil {
		t.Fatal(err)
	}
	const id perdure.ProviderID = "provider_00000000000000000000000000000001"
	seal := sessionport.Config{Keys: keys}
	key, err := seal.SealKey(id, "key")
	if err != nil {
		t.Fatal(err)
	}
	token, err := seal.SealToken(store.ConnectionKey{User: "user", Provider: "github"}, "token")
	if err != nil {
		t.Fatal(err)
	}
	hidden := store.Secret{Session: "session_00000000000000000000000000000001", Name: "name", Version: 1}
	if hidden.Sealed, err = keys.Seal(secret.Place{Session: hidden.Session, Name: hidden.Name, Version: 1}, []byte("value")); err != nil {
		t.Fatal(err)
	}
	if hidden.KeyID, err = keys.Current(); err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		if err := tx.Sessions().Create(store.Session{ID: hidden.Session, Status: perdure.SessionStarted}); err != nil {
			return err
		}
		if _, err := tx.Directory().Providers().Put(store.Provider{ID: id, Kind: "openai", Sealed: key}); err != nil {
			return err
		}
		if _, err := tx.Directory().Connections().Put(store.Connection{User: "user", Provider: "github", Sealed: token}); err != nil {
			return err
		}
		return tx.Secrets().Put(hidden)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	done, err := rotateKey(t.Context(), dir)

	if done != (admin.RotateResult{Sealed: 3}) || err != nil {
		t.Errorf("got %+v, %v, want 3", done, err)
	}
	if st, err = sqlite.Open(t.Context(), sqlite.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var deeds []string
	err = st.View(t.Context(), func(r store.Reader) error {
		_, err := store.CheckAudit(r.Audit(), func(e store.AuditEntry) { deeds = append(deeds, e.Action+" "+e.Subject+" "+e.Detail["rows"]) }, t.Errorf)
		return err
	})
	current, failed := keys.Current()
	if want := []string{"key.rotated " + current + " ", "key.resealed " + current + " 1", "key.resealed " + current + " 1", "key.resealed " + current + " 1"}; err != nil || failed != nil || !slices.Equal(deeds, want) {
		t.Errorf("the audit log says %q, %v, %v, want %q", deeds, err, failed, want)
	}
	used, err := sessionport.KeysInUse(t.Context(), sessionport.Config{Store: st})
	if err != nil || !slices.Equal(used, []string{current}) {
		t.Errorf("in use are %v, %v, want %s", used, err, current)
	}
}
