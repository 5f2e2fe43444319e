//go:build unix

package file_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/tool"
)

// racePaths are the paths that are swapped, and what stands below them in the canary's folder.
var racePaths = []string{"/x", "/x/" + canaryName, "/x/sub", "/x/sub/" + canaryName, "/x/new", "/d/x", "/d/x/" + canaryName, "/d/x/sub/empty", "/d", "/x/fifo", "/"}

// TestS04Races swaps files, links, directories and FIFOs under a Dir while it reads, writes, lists
// and removes. Nothing outside is read or changed, nothing waits, and each error is one for the
// model.
func TestS04Races(t *testing.T) {
	t.Parallel()
	attempts := soak.Count(t, "PERDURE_RACES", 2000, 100000)
	c := newCage(t)
	must(t, os.Mkdir(filepath.Join(c.folder, "d"), 0o755))
	d := openDir(t, c.folder)
	root, err := os.OpenRoot(c.folder)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	stop := make(chan struct{})
	var swapping, trying sync.WaitGroup
	var swaps, tried, done atomic.Int64
	for i := range 2 {
		s := swapper{cage: c, root: root, made: fmt.Sprintf("made%d", i), chance: rand.New(rand.NewPCG(uint64(i), 1))}
		swapping.Go(func() { s.run(stop, &swaps) })
	}
	for i := range 4 {
		trying.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(i), 2))
			for tried.Add(1) <= int64(attempts) {
				if c.attempt(t, d, chance) {
					done.Add(1)
				}
			}
		})
	}

	finished := make(chan struct{})
	go func() {
		trying.Wait()
		close(finished)
	}()
	patience := time.Minute + time.Duration(attempts)*20*time.Millisecond
	select {
	case <-finished:
	case <-time.After(patience):
		t.Errorf("something waits: %d of %d attempts in %v", tried.Load(), attempts, patience)
	}
	close(stop)
	swapping.Wait()

	c.unharmed(t)
	if done.Load() == 0 || swaps.Load() == 0 {
		t.Errorf("%d attempts were done, %d swaps: nothing was tried", done.Load(), swaps.Load())
	}
	t.Logf("security: files: %d races tried (%d done, the others refused) against %d swaps, %d escapes", attempts, done.Load(), swaps.Load(), c.escapes.Load())
}

// swapper puts one thing after another in the place of three paths. It stays inside itself: a path
// that it swaps may be a link by now.
type swapper struct {
	cage   *cage
	root   *os.Root
	made   string // a name of its own
	chance *rand.Rand
}

// run swaps until it is stopped. What it cannot do it leaves.
func (s swapper) run(stop <-chan struct{}, swaps *atomic.Int64) {
	root, made, chance := s.root, s.made, s.chance
	for {
		select {
		case <-stop:
			return
		default:
		}
		place := []string{"x", "d/x", "d"}[chance.IntN(20)%3]
		switch chance.IntN(9) {
		case 0:
			_ = root.WriteFile(made, []byte("inside"), 0o644)
		case 1:
			_ = root.MkdirAll(made+"/sub/empty", 0o755)
			_ = root.WriteFile(made+"/"+canaryName, []byte("inside"), 0o644)
		case 2:
			_ = root.Symlink(s.cage.private, made)
		case 3:
			_ = root.Symlink(filepath.Join(s.cage.private, canaryName), made)
		case 4:
			_ = root.Symlink("../private", made)
		case 5:
			_ = root.Symlink(filepath.Join(s.cage.private, "fifo"), made)
		case 6:
			_ = syscall.Mkfifo(filepath.Join(s.cage.folder, made), 0o644)
		case 7:
			_ = root.WriteFile(made, []byte("fixed"), 0o444)
		case 8:
			_ = root.Rename("x", "d/x")
		}
		if root.Rename(made, place) != nil { // a directory in the place, or nothing made
			_ = root.Rename(place, made+"-old")
			_ = root.Rename(made, place)
			_ = root.RemoveAll(made + "-old")
		}
		_ = root.RemoveAll(made)
		swaps.Add(1)
	}
}

// attempt does one thing with a path that may be something else by now.
func (c *cage) attempt(t *testing.T, d interface {
	tool.Files
	tool.Seeder
}, chance *rand.Rand,
) (done bool) {
	ctx, name := context.Background(), racePaths[chance.IntN(len(racePaths))]
	var content []byte
	var stats []tool.FileStat
	var err error
	var what string
	switch chance.IntN(9) {
	case 0, 1:
		var got tool.File
		what = "read"
		got, err = d.Read(ctx, name)
		content, stats = got.Content, []tool.FileStat{got.FileStat}
	case 2:
		var got tool.FileStat
		what = "stat"
		got, err = d.Stat(ctx, name)
		stats = append(stats, got)
	case 3:
		what = "list"
		stats, err = d.List(ctx, name, chance.IntN(2) == 0)
	case 4:
		what = "write"
		_, err = d.Write(ctx, tool.FileWrite{Path: name, Content: []byte("forged")})
	case 5:
		was := []byte("inside")
		what = "set"
		_, err = d.Write(ctx, tool.FileWrite{Path: name, Content: []byte("forged"), IfContent: &was})
	case 6:
		what = "remove"
		_, err = d.Remove(ctx, name, chance.IntN(2) == 0)
	case 7:
		what = "make"
		_, err = d.MakeDirectory(ctx, name)
	case 8:
		what = "seed"
		err = d.Seed(ctx, tool.InitialFile{Path: name, Content: "seeded", IsReadOnly: chance.IntN(2) == 0})
	}
	c.told(t, what+" "+name, answer{content, stats, err})
	return err == nil
}
