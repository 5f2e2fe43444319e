package local_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/store/postgres"
	"github.com/perdure/perdure/tool"
)

// TestOneAgentOfAName: when several callers create an agent of one name at once, or change the same
// version, one succeeds, in a store of one process and in a shared one.
func TestOneAgentOfAName(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (store.Store, error){
		"memory": func(*testing.T) (store.Store, error) { return memory.New(memory.Config{}), nil },
		"postgres": func(t *testing.T) (store.Store, error) {
			return postgres.Open(t.Context(), postgres.Config{URL: pgtest.Database(t, migrated)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			script, err := scripted.Parse("none", []byte("steps:\n  - text: one\n"))
			if err != nil {
				t.Fatal(err)
			}
			eng, err := local.Open(t.Context(), local.Config{Store: st, Model: script, Tools: tool.NewRegistry(plainTool("echo"))})
			if err != nil {
				t.Fatal(err)
			}
			for version := range int64(3) {
				var won atomic.Int64
				var group sync.WaitGroup
				for i := range 8 {
					group.Go(func() {
						_, err := eng.Agents().Put(t.Context(), engine.AgentWrite{Name: "reader", Version: version, Overlay: agent.Overlay{SystemPrompt: fmt.Sprint(version, i)}})
						switch {
						case err == nil:
							won.Add(1)
						case !errors.Is(err, perdure.Conflict):
							t.Errorf("got %v", err)
						}
					})
				}
				group.Wait()
				all, err := eng.Agents().List(t.Context())
				if err != nil || won.Load() != 1 || len(all) != 1 || all[0].Version != version+1 {
					t.Errorf("after version %d: %d won, %+v, %v", version, won.Load(), all, err)
				}
			}
		})
	}
}

// TestDeleteAgentOfAVersion: an agent that was changed since it was read is not deleted.
func TestDeleteAgentOfAVersion(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openShop(t, "steps: [{text: one}]", local.Config{})
	for version := range int64(2) {
		if _, err := s.eng.Agents().Put(ctx, engine.AgentWrite{Name: "reader", Version: version, Overlay: agent.Overlay{SystemPrompt: fmt.Sprint(version)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.eng.Agents().Delete(ctx, "reader", 1); !errors.Is(err, perdure.Conflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	if kept, err := s.eng.Agents().Get(ctx, "reader"); err != nil || kept.Version != 2 || kept.Status != string(agent.Active) {
		t.Errorf("got %+v, %v, want it as it was", kept, err)
	}
	if err := s.eng.Agents().Delete(ctx, "reader", 2); err != nil {
		t.Error(err)
	}
	if kept, err := s.eng.Agents().Get(ctx, "reader"); !errors.Is(err, perdure.NotFound) {
		t.Errorf("got %+v, %v, want it gone", kept, err)
	}
}

// migrated creates the schema that every database of the tests has.
func migrated(url string) error {
	st, err := postgres.Open(context.Background(), postgres.Config{URL: url})
	if err != nil {
		return err
	}
	return st.Close()
}
