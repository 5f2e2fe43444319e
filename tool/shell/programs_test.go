package shell

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// person is a home directory with programs, as version managers lay it out.
type person struct {
	*testing.T
	home string
}

func newPerson(t *testing.T) person {
	t.Helper()
	homes, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(homes, "me")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	for _, m := range managers() {
		t.Setenv(m.variable, "")
	}
	return person{t, home}
}

// file makes a file below the home; a program if its name has no extension.
func (p person) file(name, text string) string {
	p.Helper()
	path := filepath.Join(p.home, name)
	mode := os.FileMode(0o600)
	if strings.HasPrefix(text, "#!") {
		mode = 0o700
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		p.Fatal(err)
	}
	return path
}

func (p person) link(name, to string) {
	p.Helper()
	path := filepath.Join(p.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(p.home, to), path); err != nil {
		p.Fatal(err)
	}
}

const script = "#!/bin/sh\necho fine\n"

// layout is a home directory in which a tool has put programs, and what commands may read of it.
type layout struct {
	name  string // with the report
	build func(p person)
	path  []string // of PATH, below the home
	reads []string // below the home
	env   []string // NAME=directory below the home
}

func layouts() []layout {
	return slices.Concat(managedLayouts(), otherLayouts())
}

func managedLayouts() []layout {
	return []layout{
		{"pyenv, whose shims start its own programs", func(p person) {
			p.file(".pyenv/shims/python3", script)
			p.file(".pyenv/bin/pyenv", script)
			p.file(".pyenv/libexec/pyenv", script)
			p.file(".pyenv/versions/3.12/bin/python3", script)
		}, []string{".pyenv/shims", ".pyenv/bin"}, []string{".pyenv", ".pyenv/bin", ".pyenv/shims"}, []string{"PYENV_ROOT=.pyenv"}},
		{"nvm: the version that is in PATH, with its modules", func(p person) {
			p.file(".nvm/versions/node/v22.1.0/bin/node", script)
			p.file(".nvm/versions/node/v22.1.0/lib/node_modules/npm/bin/npm-cli.js", script)
			p.link(".nvm/versions/node/v22.1.0/bin/npm", ".nvm/versions/node/v22.1.0/lib/node_modules/npm/bin/npm-cli.js")
			p.file(".nvm/versions/node/v20.0.0/lib/x", "x")
			p.file(".nvm/nvm.sh", "x")
		}, []string{".nvm/versions/node/v22.1.0/bin"}, []string{".nvm", ".nvm/versions/node/v22.1.0", ".nvm/versions/node/v22.1.0/bin",
			".nvm/versions/node/v22.1.0/lib/node_modules/npm/bin"}, []string{"NVM_DIR=.nvm"}},
		{"fnm, which links to the version (eugene1g/agent-safehouse#111)", func(p person) {
			p.file(".local/share/fnm/node-versions/v22/installation/bin/node", script)
			p.file(".local/share/fnm/node-versions/v22/installation/lib/x", "x")
			p.link(".local/state/fnm_multishells/1_2", ".local/share/fnm/node-versions/v22/installation")
		}, []string{".local/state/fnm_multishells/1_2/bin"}, []string{".local/state/fnm_multishells/1_2", ".local/state/fnm_multishells/1_2/bin"}, nil},
		{"cargo: no registry tokens, and the tool chains", func(p person) {
			p.file(".cargo/bin/cargo", script)
			p.file(".cargo/credentials.toml", "token")
			p.file(".cargo/registry/x", "x")
			p.file(".rustup/toolchains/stable/bin/cargo", script)
		}, []string{".cargo/bin"}, []string{".cargo/bin", ".rustup"}, []string{"RUSTUP_HOME=.rustup"}},
		{"uv and pipx: links into installations (TNG/oh-my-agentic-coder#315)", func(p person) {
			p.file(".local/share/uv/python/cpython-3.12/bin/python3.12", script)
			p.file(".local/share/uv/python/cpython-3.12/lib/x", "x")
			p.file(".local/share/pipx/venvs/black/bin/black", script)
			p.file(".local/share/pipx/venvs/black/lib/x", "x")
			p.file(".local/share/claude/versions/2.0", script)
			p.file(".local/share/keyrings/login", "secret")
			p.link(".local/bin/python3.12", ".local/share/uv/python/cpython-3.12/bin/python3.12")
			p.link(".local/bin/black", ".local/share/pipx/venvs/black/bin/black")
			p.link(".local/bin/claude", ".local/share/claude/versions/2.0")
			p.link(".local/bin/notes", ".local/share/keyrings/login") // no program
		}, []string{".local/bin"}, []string{".local/bin", ".local/share/claude/versions/2.0", ".local/share/pipx/venvs/black",
			".local/share/pipx/venvs/black/bin", ".local/share/uv/python/cpython-3.12", ".local/share/uv/python/cpython-3.12/bin"}, nil},
	}
}

func otherLayouts() []layout {
	return []layout{
		{"an installation with something secret", func(p person) {
			p.file("sdk/bin/tool", script)
			p.file("sdk/lib/x", "x")
			p.file("sdk/auth.json", "secret")
			p.file("sdk/.npmrc", "secret")
		}, []string{"sdk/bin"}, []string{"sdk/bin", "sdk/lib"}, nil},
		{"private directories", func(p person) {
			p.file(".docker/bin/docker", script)
			p.file(".docker/lib/x", "x")
			p.file(".docker/config.json", "secret")
			p.file("bin/mine", script)
			p.file("lib/x", "x")
			p.file(".ssh/id_rsa", "secret")
		}, []string{".docker/bin", "bin"}, []string{".docker/bin", "bin"}, nil},
		{"the home of another user, as root has it in PATH", func(p person) {
			p.file("../other/.local/bin/x", script)
			p.file("../other/.local/share/keyrings/login", "secret")
			p.file("../other/bin/x", script)
			p.file("../other/lib/x", "x")
		}, []string{"../other/.local/bin", "../other/bin"}, []string{"../other/.local/bin", "../other/bin"}, nil},
		{"the home itself, a directory above it, a relative one and a missing one", func(p person) {
			p.file("x", script)
		}, []string{".", "..", "missing"}, nil, nil},
		{"the data directory", func(p person) {
			p.file("data/bin/x", script)
			p.file("tools/bin/x", script)
			p.file("tools/lib/x", "x")
			p.file("tools/data/x", "x")
		}, []string{"data/bin", "tools/bin"}, []string{"tools/bin"}, nil},
	}
}

// TestUserPrograms is not parallel: it changes the environment of this process.
func TestUserPrograms(t *testing.T) {
	for _, c := range layouts() {
		t.Run(c.name, func(t *testing.T) {
			p := newPerson(t)
			c.build(p)
			path := []string{"relative", "/usr/bin", "/bin"}
			for _, dir := range c.path {
				path = append(path, filepath.Join(p.home, dir))
			}
			t.Setenv("PATH", strings.Join(path, ":"))

			got := UserPrograms(filepath.Join(p.home, "data"), filepath.Join(p.home, "tools", "data"))

			var want, env []string
			for _, dir := range c.reads {
				want = append(want, filepath.Join(p.home, dir))
			}
			for _, v := range c.env {
				name, dir, _ := strings.Cut(v, "=")
				env = append(env, name+"="+filepath.Join(p.home, dir))
			}
			slices.Sort(want)
			if !slices.Equal(got.Reads, want) {
				t.Errorf("got reads\n%s\nwant\n%s", strings.Join(got.Reads, "\n"), strings.Join(want, "\n"))
			}
			for _, v := range got.Env {
				name, _, _ := strings.Cut(v, "=")
				if !slices.Contains([]string{"PATH", "HOME", "LANG", "TMPDIR"}, name) && !slices.Contains(env, v) {
					t.Errorf("got the variable %s", v)
				}
			}
			for _, v := range env {
				if !slices.Contains(got.Env, v) {
					t.Errorf("the variable %s is missing in %q", v, got.Env)
				}
			}
		})
	}
}

// TestProgramsBelowHome runs one in the sandbox, and looks for what must stay hidden beside it.
func TestProgramsBelowHome(t *testing.T) {
	for _, profile := range []supervise.Profile{supervise.ProfileWorkspace, supervise.ProfileIsolated} {
		t.Run(string(profile), func(t *testing.T) {
			p := newPerson(t)
			p.file(".pyenv/shims/mytool", "#!/bin/sh\nexec \"$PYENV_ROOT/libexec/tool\"\n")
			p.file(".pyenv/libexec/tool", script)
			p.file(".cargo/bin/cargo", script)
			credentials := p.file(".cargo/credentials.toml", "canary")
			key := p.file(".ssh/id_rsa", "canary")
			t.Setenv("PATH", filepath.Join(p.home, ".pyenv/shims")+":"+filepath.Join(p.home, ".cargo/bin")+":/usr/bin:/bin")
			programs := UserPrograms()
			b, err := New(Config{RunsDir: t.TempDir(), Dir: t.TempDir(), Profile: profile, Reads: programs.Reads, Env: programs.Env})
			if err != nil {
				t.Skipf("S11: this machine refuses the profile, as it should: %v", err)
			}

			got, ok := b.Run(t.Context(), command("mytool && cargo; cat "+credentials+" "+key+"; echo x > "+p.home+"/.cargo/bin/new; ls "+p.home+"/.cargo/bin"), tool.Env{}).Value.(answer)

			if !ok || !strings.HasPrefix(got.Stdout, "fine\nfine\n") || strings.Contains(got.Stdout, "canary") || strings.Contains(got.Stdout, "new") {
				t.Errorf("got %+v", got)
			}
		})
	}
}
