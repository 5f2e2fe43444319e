//go:build unix

package file_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/file"
)

// Two servers, or two spellings of a folder's name, make two Dirs. A compare-and-set is atomic all
// the same (FI3).
func TestDirComparesAndSetsAcrossDirs(t *testing.T) {
	t.Parallel()
	folder := memoryFolder(t)
	alias := filepath.Join(t.TempDir(), "alias")
	must(t, os.Symlink(folder, alias))
	dirs := []*file.Dir{openDir(t, folder), openDir(t, alias), openDir(t, folder)}
	for round := range 50 {
		name := fmt.Sprintf("/f%d", round)
		_, err := dirs[0].Write(t.Context(), tool.FileWrite{Path: name, Content: []byte("start")})
		must(t, err)
		var winners []string
		var mu sync.Mutex
		var setting sync.WaitGroup
		begin := make(chan struct{})
		for i, d := range dirs {
			setting.Go(func() {
				was, content := []byte("start"), fmt.Sprintf("setter %d", i)
				<-begin
				if _, err := d.Write(t.Context(), tool.FileWrite{Path: name, Content: []byte(content), IfContent: &was}); err == nil {
					mu.Lock()
					defer mu.Unlock()
					winners = append(winners, content)
				}
			})
		}
		close(begin)
		setting.Wait()

		got, err := dirs[1].Read(t.Context(), name)
		if len(winners) != 1 || err != nil || !slices.Contains(winners, string(got.Content)) {
			t.Fatalf("round %d: winners %v, the file holds %q, %v", round, winners, got.Content, err)
		}
	}
}

// A process that keeps the folder locked does not block others for ever.
func TestDirGivesUpOnALockedFolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		d := openDir(t, folder)
		held, err := os.Open(folder)
		must(t, err)
		defer held.Close()
		must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_EX))
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(perdure.CauseShutdown)

		_, lateErr := d.Write(ctx, tool.FileWrite{Path: "/f", Content: []byte("1")})
		_, lockedErr := d.Write(t.Context(), tool.FileWrite{Path: "/f", Content: []byte("1")})
		_, readErr := d.Read(t.Context(), "/f")
		must(t, syscall.Flock(int(held.Fd()), syscall.LOCK_UN))
		_, err = d.Write(t.Context(), tool.FileWrite{Path: "/f", Content: []byte("1")})

		if !errors.Is(lateErr, perdure.CauseShutdown) || !errors.Is(lockedErr, perdure.Unavailable) || err != nil {
			t.Errorf("got %v, %v, %v", lateErr, lockedErr, err)
		}
		if !errors.Is(readErr, perdure.NotFound) {
			t.Errorf("a read waited: %v", readErr)
		}
	})
}

// What a command in the folder can and cannot do to a read-only seed (FI5). The host refuses to
// write to it. A command may put another file in its place, since the folder is its own; seeding
// again puts it back.
func TestSeedsBesideAShell(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	d := openDir(t, folder)
	fixed := tool.InitialFile{Path: "/fixed", Content: "as it is", IsReadOnly: true}
	must(t, d.Seed(t.Context(), fixed))
	sh := func(script string) error {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = folder
		if os.Geteuid() == 0 { // the superuser writes whatever the mode says
			must(t, os.Chmod(filepath.Dir(folder), 0o755))
			must(t, os.Chmod(folder, 0o777))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "denied") {
			t.Errorf("%s: %s", script, out)
		}
		return err
	}

	for _, script := range []string{"echo forged > fixed", "echo forged >> fixed", "printf forged | tee fixed"} {
		if err := sh(script); err == nil {
			t.Errorf("%s was done", script)
		}
		if got, err := d.Read(t.Context(), "/fixed"); err != nil || string(got.Content) != "as it is" {
			t.Errorf("%s: %q, %v", script, got.Content, err)
		}
	}

	must(t, sh("echo forged > other && mv -f other fixed"))
	must(t, d.Seed(t.Context(), fixed))
	if got, err := d.Read(t.Context(), "/fixed"); err != nil || string(got.Content) != "as it is" || !got.IsReadOnly {
		t.Errorf("it was not put back: %q, %v", got.Content, err)
	}
}
