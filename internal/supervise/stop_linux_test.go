package supervise

import (
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestStopsAtTheSameTime keeps the sooner end of two requests, whichever is written last (RC21).
func TestStopsAtTheSameTime(t *testing.T) {
	t.Parallel()
	for range 200 {
		r := &localRun{dir: t.TempDir()}
		var both sync.WaitGroup
		for _, grace := range []time.Duration{time.Hour, 0, time.Hour} {
			both.Go(func() {
				if err := r.writeStop(stopFile{GraceMS: toMS(grace), RequestedAt: now()}); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		var kept stopFile
		if err := readJSON(filepath.Join(r.dir, stopName), &kept); err != nil || kept.GraceMS != 0 {
			t.Fatalf("got %+v, %v: a later request has lengthened the grace period", kept, err)
		}
	}
}
