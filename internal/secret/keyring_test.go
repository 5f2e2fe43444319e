package secret

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
)

func (k *Keyring) sealed(t *testing.T, at Place, plain string) []byte {
	t.Helper()
	sealed, err := k.Seal(at, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func (k *Keyring) opens(t *testing.T, at Place, sealed []byte, want string) {
	t.Helper()
	got, err := k.Open(at, sealed)
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestCreateMakesARingOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keyring")
	at := Place{Session: "s", Name: "n", Version: 1}
	if _, err := Load(path); !errors.Is(err, perdure.NotFound) {
		t.Errorf("before it is made: %v", err)
	}
	k, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed := k.sealed(t, at, "a value")

	if _, err := Create(path); !errors.Is(err, perdure.Conflict) {
		t.Errorf("made again: %v", err)
	}
	again, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	again.opens(t, at, sealed, "a value")
	found, err := os.Stat(path)
	if err != nil || found.Mode() != 0o600 {
		t.Errorf("mode %v, %v", found.Mode(), err)
	}
}

// TestRotateKeepsWhatWasSealed is SE2: new values use the new key, old ones open, in every process
// that has the ring.
func TestRotateKeepsWhatWasSealed(t *testing.T) {
	t.Parallel()
	k := ring(t)
	other, err := Load(k.path)
	if err != nil {
		t.Fatal(err)
	}
	at := Place{Session: "s", Name: "n", Version: 1}
	old := k.sealed(t, at, "old")
	first, err := k.Current()
	if err != nil {
		t.Fatal(err)
	}

	second, err := k.Rotate()
	if err != nil {
		t.Fatal(err)
	}

	fresh := other.sealed(t, at, "fresh")
	if id, err := KeyID(fresh); err != nil || id != second || id == first {
		t.Errorf("the other process seals with %s, %v, want %s", id, err, second)
	}
	for _, each := range []*Keyring{k, other} {
		each.opens(t, at, old, "old")
		each.opens(t, at, fresh, "fresh")
	}
}

// TestRotationsBesideEachOther wants no key to be lost that something was sealed with.
func TestRotationsBesideEachOther(t *testing.T) {
	t.Parallel()
	k := ring(t)
	at := Place{Session: "s", Name: "n", Version: 1}
	var all sync.WaitGroup
	var mu sync.Mutex
	var sealed [][]byte // guarded by mu
	for range 8 {
		own, err := Load(k.path)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 5 {
				_, err := own.Rotate()
				text, sealErr := own.Seal(at, []byte("a value"))
				if err != nil || sealErr != nil {
					t.Error(err, sealErr)
				}
				mu.Lock()
				sealed = append(sealed, text)
				mu.Unlock()
			}
		})
	}
	all.Wait()

	for _, text := range sealed {
		k.opens(t, at, text, "a value")
	}
	if n := len(k.Keys()); n != 41 {
		t.Errorf("%d keys, want 41", n)
	}
}

func TestPruneForgetsWhatNobodyUses(t *testing.T) {
	t.Parallel()
	k := ring(t)
	at := Place{Session: "s", Name: "n", Version: 1}
	var ids []string
	var sealed [][]byte
	for i := range 4 {
		if i > 0 {
			if _, err := k.Rotate(); err != nil {
				t.Fatal(err)
			}
		}
		sealed = append(sealed, k.sealed(t, at, "a value"))
		id, err := KeyID(sealed[i])
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if gone, err := k.Prune(nil, k.Keys()[0].RetiredAt); err != nil || len(gone) > 0 {
		t.Errorf("retired too lately: %v, %v", gone, err)
	}

	gone, err := k.Prune([]string{ids[1]}, time.Now().Add(time.Hour))

	if err != nil || strings.Join(gone, " ") != ids[0]+" "+ids[2] {
		t.Errorf("gone are %v, %v, want %s and %s", gone, err, ids[0], ids[2])
	}
	k.opens(t, at, sealed[1], "a value")
	k.opens(t, at, sealed[3], "a value")
	for _, i := range []int{0, 2} {
		if _, err := k.Open(at, sealed[i]); !errors.Is(err, UnknownKey) {
			t.Errorf("under a key that is gone: %v", err)
		}
	}
}

// TestRingsThatAreRefused wants each refusal to say what to do, and to leave the file as it is.
func TestRingsThatAreRefused(t *testing.T) {
	t.Parallel()
	const line = `{"id":"a","created_at":"2026-01-02T03:04:05Z","key":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="}`
	file := func(current, keys string) string {
		return fmt.Sprintf(`{"format":"perdure-keyring","version":1,"current":%q,"keys":[%s]}`, current, keys)
	}
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		says string
	}{
		"others_read_it":  {file("a", line), 0o640, "chmod 600"},
		"everybody_reads": {file("a", line), 0o604, "chmod 600"},
		"no_JSON":         {"keys", 0o600, "restore the file"},
		"two_of_a_key":    {file("a", line+","+line), 0o600, "restore the file"},
		"no_current":      {file("b", line), 0o600, "restore the file"},
		"no_key":          {file("a", ""), 0o600, "restore the file"},
		"a_short_key":     {file("a", strings.Replace(line, "MDEy", "", 1)), 0o600, "restore the file"},
		"a_later_version": {strings.Replace(file("a", line), `"version":1`, `"version":2`, 1), 0o600, "version 2"},
		"an_unknown_word": {strings.Replace(file("a", line), `"current"`, `"x":1,"current"`, 1), 0o600, "restore the file"},
		"cut_off":         {file("a", line)[:80], 0o600, "restore the file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "keyring")
			if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}

			_, err := Load(path)

			if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "MDEy") {
				t.Errorf("got %v", err)
			}
			if _, err := Create(path); err == nil {
				t.Error("it is made anew")
			}
			if left, err := os.ReadFile(path); err != nil || string(left) != c.text {
				t.Errorf("the file has changed: %q, %v", left, err)
			}
		})
	}
}

// TestARingThatIsGone: without the file nothing is sealed that could never be opened, and sealed
// values still open as long as the process runs.
func TestARingThatIsGone(t *testing.T) {
	t.Parallel()
	k := ring(t)
	at := Place{Session: "s", Name: "n", Version: 1}
	sealed := k.sealed(t, at, "a value")
	if err := os.Remove(k.path); err != nil {
		t.Fatal(err)
	}

	k.opens(t, at, sealed, "a value")
	if _, err := k.Seal(at, nil); !errors.Is(err, perdure.Unavailable) || !strings.Contains(err.Error(), "restore it") {
		t.Errorf("sealed: %v", err)
	}
	if _, err := k.Rotate(); !errors.Is(err, perdure.NotFound) {
		t.Errorf("rotated: %v", err)
	}
}

// TestNothingIsLeftBeside wants no copy of a key in the folder but the ring.
func TestNothingIsLeftBeside(t *testing.T) {
	t.Parallel()
	k := ring(t)
	for range 3 {
		if _, err := k.Rotate(); err != nil {
			t.Fatal(err)
		}
	}

	entries, err := os.ReadDir(filepath.Dir(k.path))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "keyring" && e.Name() != "keyring.lock" {
			t.Errorf("%s is left", e.Name())
		}
	}
}
