package local_test

import (
	"context"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/secret"
	"github.com/perdure/perdure/internal/sessionport"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/session"
)

// TestKeyIsRotatedWhileTheEngineRuns: another process creates a new key, and the engine re-encrypts
// everything under it (SE2).
func TestKeyIsRotatedWhileTheEngineRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := memory.New(memory.Config{})
	home, err := local.OpenDataDir(t.Context(), local.DataDirConfig{Dir: dir, Store: st})
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	model, err := scripted.Parse("rotate", []byte(`
steps:
  - calls: [{name: secret_store, args: {operation: set, name: n, value: correct-horse}}]
  - {text: kept, repeat: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: st, Model: model, Tools: tool.NewRegistry(session.StorageTools()...),
		Storage: local.Storage{Secrets: home.Secrets}, Workers: local.Workers{Beat: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("keep it"))
	}
	if err == nil {
		err = eng.Sessions().WaitIdle(ctx, s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}

	elsewhere, err := secret.Load(filepath.Join(dir, "keyring"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := elsewhere.Rotate()
	if err != nil {
		t.Fatal(err)
	}

	var used []string
	for look := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil && !slices.Equal(used, []string{key}); <-look.C {
		if used, err = sessionport.KeysInUse(ctx, sessionport.Config{Store: st}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(used, []string{key}) {
		t.Errorf("sealed under %v, want %s", used, key)
	}
	var deeds []string
	for _, e := range audited(t, st) {
		deeds = append(deeds, e.Action+" "+e.Subject)
	}
	if want := []string{"secret.set n", "key.rotated " + key, "key.resealed " + key}; !slices.Equal(deeds, want) {
		t.Errorf("the audit log says %q, want %q", deeds, want)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// onView is a store that runs a function once, before the next view.
type onView struct {
	store.Store
	first atomic.Pointer[func()]
}

// View implements store.Store.
func (s *onView) View(ctx context.Context, fn func(store.Reader) error) error {
	if first := s.first.Swap(nil); first != nil {
		(*first)()
	}
	return s.Store.View(ctx, fn)
}

// TestKeyIsRotatedWhileTheEngineStarts: a rotation before the first retention pass is recorded,
// too.
func TestKeyIsRotatedWhileTheEngineStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := &onView{Store: memory.New(memory.Config{})}
	home, err := local.OpenDataDir(t.Context(), local.DataDirConfig{Dir: dir, Store: st})
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	model, err := scripted.Parse("rotate", []byte("steps:\n  - {text: x, repeat: true}\n"))
	if err != nil {
		t.Fatal(err)
	}
	eng, err := local.Open(t.Context(), local.Config{
		Store: st, Model: model, Tools: tool.NewRegistry(),
		Storage: local.Storage{Secrets: home.Secrets}, Workers: local.Workers{Beat: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	keys := make(chan string, 1)
	rotate := func() {
		elsewhere, err := secret.Load(filepath.Join(dir, "keyring"))
		var key string
		if err == nil {
			key, err = elsewhere.Rotate()
		}
		if err != nil {
			t.Error(err)
		}
		keys <- key
	}
	st.first.Store(&rotate)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()

	key := <-keys
	rotated := func() bool {
		return slices.ContainsFunc(audited(t, st), func(e store.AuditEntry) bool {
			return e.Action == "key.rotated" && e.Subject == key
		})
	}
	for look := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil && !rotated(); <-look.C {
	}
	if !rotated() {
		t.Error("the audit log does not have the rotation")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
