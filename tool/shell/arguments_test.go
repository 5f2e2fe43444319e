package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/tool"
)

// smuggled are texts that do something in the wrong hands: each would leave the file pwned.
func smuggled() []string {
	return []string{
		"; touch pwned", "&& touch pwned", "|| touch pwned", "| touch pwned", "& touch pwned", "$(touch pwned)",
		"`touch pwned`", "\n touch pwned", "' ; touch pwned '", `" ; touch pwned "`, "${x:=$(touch pwned)}",
		"<(touch pwned)", "> pwned", "*", "?", "~", "!!", "-", "--", "-c", "--init-file", "--help", "-O", "\\", "\t", "é\u202e",
	}
}

func TestS10CwdIsNotALine(t *testing.T) {
	t.Parallel()
	for _, name := range smuggled() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c := call(`{"command":"printf %s \"$PWD\"","cwd":` + quote(name) + `}`)

			if r := b.Run(t.Context(), c, tool.Env{}); r.IsSuccess() || !r.Refused {
				t.Errorf("got %+v without such a directory, want a refusal", r)
			}
			dir := filepath.Join(b.config.Dir, name)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Skip("S10: no directory can have this name:", err)
			}
			wantAnswer(t, b.Run(t.Context(), c, tool.Env{}), answer{Stdout: dir})
			wantUntouched(t, b, dir)
		})
	}
}

func TestS10CwdStaysInside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := os.Symlink("/", filepath.Join(b.config.Dir, "link")); err != nil {
		t.Fatal(err)
	}
	touch(t, filepath.Join(b.config.Dir, "file"))
	for _, cwd := range []string{"..", "../", "a/../../b", "/", "/etc", b.config.Dir + "/..", b.config.Dir + "x", "link", "link/etc",
		"missing", "file", "a\x00b"} {
		r := b.Run(t.Context(), call(`{"command":"pwd","cwd":`+quote(cwd)+`}`), tool.Env{})
		if r.Kind != tool.KindToolError || !r.Refused {
			t.Errorf("cwd %q: got %+v, want a refusal", cwd, r)
		}
	}
	for i, cwd := range []string{"", ".", "./", b.config.Dir} {
		c := call(`{"command":"printf %s \"$PWD\"","cwd":` + quote(cwd) + `}`)
		c.Execution = i + 1
		wantAnswer(t, b.Run(t.Context(), c, tool.Env{}), answer{Stdout: b.config.Dir})
	}
}

// TestS10CommandIsNoOption gives bash commands that look like its options.
func TestS10CommandIsNoOption(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, text := range []string{"--version", "-c", "-i", "-s", "--rcfile", "-x", "--help"} {
		c := command(text)
		c.Execution = i + 1

		r := b.Run(t.Context(), c, tool.Env{})

		got, ok := r.Value.(answer)
		if !ok || got.ExitCode != 127 || got.Stdout != "" || !strings.Contains(got.Stderr, text+": command not found") {
			t.Errorf("%s: got %+v, want an unknown command", text, r)
		}
	}
}

func TestS10UnfitCommands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, text := range map[string]string{
		"zero byte": "echo a\x00b",
		"2 MB":      ": " + strings.Repeat("x", 2<<20),
	} {
		if r := b.Run(t.Context(), command(text), tool.Env{}); r.Kind != tool.KindToolError || !r.Refused {
			t.Errorf("%s: got %+v, want a refusal", name, r)
		}
	}
	longest := ":" + strings.Repeat(" ", maxCommandBytes-1)
	wantAnswer(t, b.Run(t.Context(), command(longest), tool.Env{}), answer{})
}

// TestS10Environment is not parallel: it changes the environment of this process.
func TestS10Environment(t *testing.T) {
	b := bench{config: Config{RunsDir: t.TempDir(), Dir: t.TempDir()}}
	hook := filepath.Join(b.config.Dir, "hook")
	if err := os.WriteFile(hook, []byte("touch pwned\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BASH_ENV", hook)
	t.Setenv("ENV", hook)
	t.Setenv("LD_PRELOAD", filepath.Join(b.config.Dir, "absent.so"))
	t.Setenv("GIT_SSH_COMMAND", hook)
	t.Setenv("PROMPT_COMMAND", "touch pwned")
	t.Setenv("SHELLOPTS", "xtrace")
	t.Setenv("BASH_FUNC_echo%%", "() { touch pwned; }")
	t.Setenv("A_SECRET", "hunter2")
	t.Setenv("LANG", "C.UTF-8")
	b.Bash = newBash(t, b.config)

	r := b.Run(t.Context(), command("echo on; export -p | sed 's/=.*//; s/declare -x //'"), tool.Env{})

	got, ok := r.Value.(answer)
	if !ok || got.Stderr != "" || !strings.HasPrefix(got.Stdout, "on\n") {
		t.Fatalf("got %+v", r)
	}
	for _, name := range strings.Fields(got.Stdout)[1:] {
		if !slices.Contains(strings.Fields("PATH HOME LANG TMPDIR PWD OLDPWD SHLVL"), name) {
			t.Errorf("got %s in the command's environment", name)
		}
	}
	wantUntouched(t, b, b.config.Dir)
}

func TestEnvironmentIsWhatTheHostGives(t *testing.T) {
	t.Parallel()
	c := Config{RunsDir: t.TempDir(), Dir: t.TempDir(), Env: []string{"ONLY=this one"}}

	r := newBash(t, c).Run(t.Context(), command(`echo "$ONLY $HOME"`), tool.Env{})

	wantAnswer(t, r, answer{Stdout: "this one \n"})
}

// wantUntouched checks that touch was not executed.
func wantUntouched(t *testing.T, b bench, dirs ...string) {
	t.Helper()
	for _, dir := range append(dirs, b.config.Dir, b.config.RunsDir, ".") {
		if _, err := os.Stat(filepath.Join(dir, "pwned")); err == nil {
			t.Fatalf("a smuggled command ran in %s", dir)
		}
	}
}
