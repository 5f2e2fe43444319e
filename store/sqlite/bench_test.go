package sqlite_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// BenchmarkInTx appends one event a transaction: one caller after another, and many at once.
func BenchmarkInTx(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			s, err := sqlite.Open(context.Background(), sqlite.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			err = s.InTx(context.Background(), func(tx store.Tx) error {
				return tx.Sessions().Create(store.Session{ID: theSession})
			})
			if err != nil {
				b.Fatal(err)
			}
			before := s.Stats()

			appendFrom(b, s, callers)

			after := s.Stats()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
			b.ReportMetric(float64(after.Transactions-before.Transactions)/float64(after.Commits-before.Commits),
				"tx/commit")
		})
	}
}

// appendFrom divides b.N transactions among callers.
func appendFrom(b *testing.B, s *sqlite.Store, callers int) {
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range callers {
		all.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				e := []perdure.Event{titled(fmt.Sprintf("event_%d", n))}
				if err := s.InTx(context.Background(), func(tx store.Tx) error {
					return tx.Journal().Append(theSession, e)
				}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
}
