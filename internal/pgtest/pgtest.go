// Package pgtest gives tests a PostgreSQL server: one cluster a process, started when the first test asks, and a database
// of its own for each.
//
// It may import testing and internal/pgserver; no file that is not a test imports it. The one thing to know: the server
// dies with the process, also with one that is killed, and where none is installed a test fails with what to install.
package pgtest

import (
	"context"
	"sync"
	"testing"

	"github.com/perdure/perdure/internal/pgserver"
)

// sharedCluster is a cluster that is started when somebody asks.
type sharedCluster struct {
	once    sync.Once
	cluster *pgserver.Cluster
	err     error
}

// shared is the cluster of the process: global, since so is what it belongs to.
var shared sharedCluster

// Shared is the cluster of the process, and ends with it. Nobody stops it.
func Shared(t testing.TB) *pgserver.Cluster {
	t.Helper()
	shared.once.Do(func() { shared.cluster, shared.err = pgserver.NewCluster(pgserver.Config{}) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cluster
}

// Database returns the URL of a database in the shared cluster that is the test's alone. fill makes what is in it, once a
// process, and leaves the tables without rows; nil leaves it empty.
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
