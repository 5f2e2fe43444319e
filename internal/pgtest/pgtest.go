// Package pgtest gives tests a PostgreSQL server: one cluster for each process, started when the
// first test needs it, and a database of its own for each test.
//
// It may import testing and internal/pgserver, and only tests import it. The one thing to know: the
// server ends with the process, even if the process is killed. If no server is installed, a test
// fails with instructions to install one.
package pgtest

import (
	"context"
	"sync"
	"testing"

	"github.com/perdure/perdure/internal/pgserver"
)

// sharedCluster is a cluster that starts on first use.
type sharedCluster struct {
	once    sync.Once
	cluster *pgserver.Cluster
	err     error
}

// shared is global because it belongs to the process.
var shared sharedCluster

// Shared returns the cluster of the process, which ends with the process. A test must not stop it.
func Shared(t testing.TB) *pgserver.Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = pgserver.NewCluster(pgserver.Config{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// Database returns the URL of a database for one test in the shared cluster. fill sets up its
// contents, once for each process, and must leave the tables empty; nil leaves the database empty.
func Database(t testing.TB, fill func(url string) error) string {
	t.Helper()
	c := Shared(t)
	url, err := c.Database(context.Background(), fill)
	if err != nil {
		t.Fatal(err)
	}
	if fill != nil {
		t.Cleanup(func() {
			if err := c.Reuse(context.Background(), url); err != nil {
				t.Error(err)
			}
		})
	}
	return url
}

// Own starts a cluster for one test, which may stop and start it.
func Own(t testing.TB, cfg pgserver.Config) *pgserver.Cluster {
	t.Helper()
	c, err := pgserver.NewCluster(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}
