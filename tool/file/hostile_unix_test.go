//go:build unix

package file_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// hostileParts are what hostile names are made of.
var hostileParts = []string{
	"..", ".", "...", "....", ".. ", " ..", "..;", "%2e%2e", "%252e%252e", "\u2024\u2024", "\uff0e\uff0e", "..\u200b", "\u202e..", "\ufeff..",
	"..\x00", "\x00", "..\\", "\\..", "\\\\host\\share", "..%2f", "..%c0%af", "\xc0\xae\xc0\xae", "\xff", "\xed\xa0\x80", "\u2215", "\u2044", "\uff0f",
	"\n", "\r\n", "\t", "\x1b[2J", "\x7f", "\u0085", "\u2028", "a b", " ", "  lead", "trail ", "a.", "~", "~root", "$HOME", "${PATH}", "`id`", "$(id)", ";id", "|id",
	"*", "?", "[a-z]", "{a,b}", "**", "-rf", "--", "'", "\"", "CON", "NUL", "aux.txt", "COM1", "C:", "file::$DATA", "a:b", "PROGRA~1",
	"etc", "passwd", "proc", "self", "root", "fd", "0", "cwd", "environ", "dev", "null", "zero", "stdin", "sys", "tmp",
	".git", ".ssh", ".env", ".background", ".BACKGROUND", ".Background", ".backg\u200bround", ".perdure-write-X",
	"link", "LINK", "linkdir", "up", "top", "loop", "hard", "fifo", "sock", "device", "to-fifo", "private", "session", "sub", canaryName,
	"\u00e9", "e\u0301", "\u212a", "\u0131", "\ufb01", "\u1e9e", "日本語", "🙂", "\u0000e", strings.Repeat("n", 255), strings.Repeat("n", 256), strings.Repeat("é", 128),
}

// hostileList is written by hand; the others are drawn.
var hostileList = []string{
	"", "/", "//", "///", "/.", "/..", "/../", "..", ".", "./..", "/./..", "/a/..", "/a/../..", "/a/../../private", "/../private/" + canaryName,
	"../private/" + canaryName, "private/" + canaryName, "/link", "/linkdir", "/linkdir/" + canaryName, "/linkdir/new", "/linkdir/sub/new/deep", "/up", "/up/private",
	"/up/private/" + canaryName, "/top/etc/passwd", "/top/dev/zero", "/top/proc/self/mem", "/loop", "/loop/a", "/hard", "/fifo", "/fifo/a", "/sock", "/device", "/to-fifo",
	"/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/root/etc/passwd", "/proc/self/cwd/../private", "/proc/self/fd/0", "file:///etc/passwd", "\\etc\\passwd",
	"C:\\Windows\\win.ini", "\\\\?\\C:\\", "/a\x00/../private", "/a\x00.txt", "/link/../private/" + canaryName, "/linkdir/../private", "/.background", "/.background/x",
	"/.BACKGROUND/x", "/bgalias", "/bgalias/x", "/.background/../x", "/./.background/./x", "/.perdure-write-X/y", strings.Repeat("/..", 1000), strings.Repeat("/a", 64),
	strings.Repeat("/a", 65), strings.Repeat("/a", 10_000), "/" + strings.Repeat("a", 255), "/" + strings.Repeat("a", 256), "/" + strings.Repeat("a", 4095), "/" + strings.Repeat("a", 4096),
	"/" + strings.Repeat("日", 85), "/" + strings.Repeat("日", 1365), strings.Repeat("../", 1400), "/" + strings.Repeat("./", 2000) + "a", "/a/" + strings.Repeat("/", 100),
}

// hostileNames draws names, always the same for a seed.
func hostileNames(n int) []string {
	names := slices.Clone(hostileList)
	chance := rand.New(rand.NewPCG(1, 4))
	for len(names) < n {
		var name strings.Builder
		if chance.IntN(10) > 0 {
			name.WriteByte('/')
		}
		for i := range 1 + chance.IntN(6) {
			if i > 0 {
				name.WriteString([]string{"/", "/", "/", "/", "//", "/./", "\\", ""}[chance.IntN(8)])
			}
			name.WriteString(hostileParts[chance.IntN(len(hostileParts))])
			if chance.IntN(8) == 0 {
				name.WriteString(hostileParts[chance.IntN(len(hostileParts))])
			}
		}
		names = append(names, name.String())
	}
	return names
}

// lay puts into the session's folder what a hostile command could leave there.
func (c *cage) lay(t *testing.T) {
	t.Helper()
	in := func(name string) string { return filepath.Join(c.folder, name) }
	must(t, os.Symlink(filepath.Join(c.private, canaryName), in("link")))
	must(t, os.Symlink(c.private, in("linkdir")))
	must(t, os.Symlink("..", in("up")))
	must(t, os.Symlink("/", in("top")))
	must(t, os.Symlink("loop", in("loop")))
	must(t, os.Symlink(filepath.Join(c.private, "fifo"), in("to-fifo")))
	must(t, os.Mkdir(in(".background"), 0o755))
	must(t, os.Symlink(".background", in("bgalias")))
	must(t, syscall.Mkfifo(in("fifo"), 0o644))
	sock, err := net.ListenUnix("unix", &net.UnixAddr{Name: shortPath(t, in("sock")), Net: "unix"})
	must(t, err)
	t.Cleanup(func() { _ = sock.Close() })
	if err := syscall.Mknod(in("device"), syscall.S_IFCHR|0o666, 1<<8|5); err != nil { // /dev/zero: it never ends
		t.Logf("no device of our own: %v", err) // it takes the superuser; /top/dev/zero is tried besides
	}
}

// shortPath is a name of a file that fits into the address of a socket.
func shortPath(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Open(filepath.Dir(name))
	must(t, err)
	t.Cleanup(func() { _ = dir.Close() })
	alias, err := os.MkdirTemp("", "s")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(alias) })
	must(t, os.Symlink(filepath.Dir(name), filepath.Join(alias, "d")))
	return filepath.Join(alias, "d", filepath.Base(name))
}

// TestS04HostileNames gives every method two thousand names, over a folder full of traps and over a
// store.
func TestS04HostileNames(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	c.lay(t)
	st, id := memory.New(memory.Config{}), perdure.SessionID("session_names")
	must(t, st.InTx(t.Context(), func(tx store.Tx) error {
		return tx.Sessions().Create(store.Session{ID: id, CreatedAt: tx.Now(), UpdatedAt: tx.Now()})
	}))
	names := hostileNames(soak.Count(t, "PERDURE_NAMES", 2000, 2000))

	taken := 0
	for _, f := range []tool.Files{openDir(t, c.folder), sessionfile.New(st, id, false)} {
		for _, name := range names {
			if c.tryName(t, f, name) {
				taken++
			}
		}
	}

	c.unharmed(t)
	if taken == 0 {
		t.Error("not one name was taken: nothing was tried")
	}
	t.Logf("security: files: %d names tried on each of 2 backends (%d taken as names inside), %d escapes", len(names), taken, c.escapes.Load())
}

// tryName gives a name to each method and reports whether a file of that name was written.
func (c *cage) tryName(t *testing.T, f tool.Files, name string) bool {
	ctx := t.Context()
	stat, err := f.Stat(ctx, name)
	c.told(t, "stat "+name, answer{nil, []tool.FileStat{stat}, err})
	got, err := f.Read(ctx, name)
	c.told(t, "read "+name, answer{got.Content, []tool.FileStat{got.FileStat}, err})
	stats, err := f.List(ctx, name, true)
	c.told(t, "list "+name, answer{nil, stats, err})
	made, err := f.MakeDirectory(ctx, name+"/made")
	c.told(t, "make "+name, answer{nil, []tool.FileStat{made}, err})
	was := []byte(canaryText)
	_, err = f.Write(ctx, tool.FileWrite{Path: name, Content: []byte("forged"), IfContent: &was})
	c.told(t, "set "+name, answer{nil, nil, err})

	created, err := f.Write(ctx, tool.FileWrite{Path: name + ".new", Content: []byte("forged")})
	c.told(t, "write "+name, answer{nil, nil, err})
	if err == nil {
		c.wrote(t, f, name+".new", created)
	}
	clean, cleanErr := tool.CleanPath(name)
	if cleanErr == nil && strings.Count(clean, "/") == 1 && isTrap(clean[1:]) {
		return err == nil // the traps stay for the names that follow
	}
	_, removeErr := f.Remove(ctx, name, true)
	c.told(t, "remove "+name, answer{nil, nil, removeErr})
	return err == nil
}

// isTrap reports a name of what lay lays.
func isTrap(name string) bool {
	return slices.Contains([]string{"link", "linkdir", "up", "top", "loop", "fifo", "to-fifo", "bgalias", "sock", "device"}, name)
}

// wrote wants a file that was taken under the one clean form of its name.
func (c *cage) wrote(t *testing.T, f tool.Files, name string, created bool) {
	t.Helper()
	clean, err := tool.CleanPath(name)
	if err != nil || !created {
		t.Errorf("%q was taken: created %v, %v", name, created, err)
		return
	}
	if got, err := f.Read(t.Context(), clean); err != nil || got.Path != clean || string(got.Content) != "forged" {
		t.Errorf("%q: read %q of %q, %v", name, got.Content, got.Path, err)
	}
	if removed, err := f.Remove(t.Context(), clean, false); !removed || err != nil {
		t.Errorf("%q: removed %v, %v", name, removed, err)
	}
}

// A command makes ten thousand levels in a blink. They are listed as far as a path can go, and
// removed whole, by a process that may not have that many files open.
func TestS04DeepTree(t *testing.T) {
	t.Parallel()
	const child = "PERDURE_DEEP_TREE"
	if os.Getenv(child) == "" {
		cmd := exec.Command("sh", "-c", `ulimit -n 256 && exec "$0" -test.run '^TestS04DeepTree$'`, os.Args[0])
		cmd.Env = append(os.Environ(), child+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	folder := memoryFolder(t)
	at, err := os.OpenRoot(folder)
	must(t, err)
	must(t, at.Mkdir("tree", 0o755))
	for level, part := range append([]string{"tree"}, slices.Repeat([]string{"d"}, 10_000)...) {
		below, err := at.OpenRoot(part)
		must(t, err)
		must(t, at.Close())
		at = below
		must(t, at.Mkdir("d", 0o755))
		if level%50 == 0 {
			must(t, at.WriteFile("f", []byte("x"), 0o644))
		}
	}
	must(t, at.Close())
	d, ctx := openDir(t, folder), t.Context()

	stats, err := d.List(ctx, "/", true)
	if err != nil || len(stats) != 66 || strings.Count(stats[len(stats)-1].Path, "/") > 64 {
		t.Errorf("listed %d, %v", len(stats), err)
	}
	if _, err := d.Write(ctx, tool.FileWrite{Path: "/beside", Content: []byte("x")}); err != nil {
		t.Error(err)
	}
	if removed, err := d.Remove(ctx, "/tree", true); !removed || err != nil {
		t.Errorf("removed %v, %v", removed, err)
	}
	if entries, err := os.ReadDir(folder); len(entries) != 1 || err != nil {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// Names that are no path for a session (FI1) are not listed, since nothing could be done with them.
func TestDirListsNoNameThatIsNoPath(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"good", `back\slash`, "new\nline", "bytes\xff", "escape\x1b[2J"} {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte("x"), 0o644))
	}

	stats, err := openDir(t, folder).List(t.Context(), "/", true)

	if len(stats) != 1 || stats[0].Path != "/good" || err != nil {
		t.Errorf("got %+v, %v", stats, err)
	}
}

// What neither is a file nor a directory is never opened: reading /dev/zero would not end.
func TestDirOpensNoSocketAndNoDevice(t *testing.T) {
	t.Parallel()
	c := newCage(t)
	c.lay(t)
	d, ctx := openDir(t, c.folder), t.Context()
	for _, name := range []string{"/sock", "/device"} {
		if _, err := os.Lstat(filepath.Join(c.folder, name)); err != nil {
			continue // only the superuser makes devices
		}
		_, readErr := d.Read(ctx, name)
		_, statErr := d.Stat(ctx, name)
		_, writeErr := d.Write(ctx, tool.FileWrite{Path: name, Content: []byte("x")})
		_, belowErr := d.Write(ctx, tool.FileWrite{Path: name + "/x", Content: []byte("x")})
		_, listErr := d.List(ctx, name, false)
		for step, err := range []error{readErr, statErr, writeErr, belowErr, listErr} {
			var told *tool.FileError
			if !errors.As(err, &told) {
				t.Errorf("%s, step %d: got %v", name, step, err)
			}
		}
	}
}
