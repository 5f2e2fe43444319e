package cli

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestC15ManPages checks that every command, argument, flag and topic is on its page, and nothing
// run this machine.
func TestC15ManPages(t *testing.T) {
	t.Setenv("PERDURE_DATA", "/secret/place")
	pages, err := manualWriter{&app{Dependencies: Dependencies{DataDir: "/secret/place"}}}.manual()
	if err != nil {
		t.Fatal(err)
	}
	roff := strings.NewReplacer("-", `\-`, "~", `\(ti`)
	wants := func(page, what string) {
		if !strings.Contains(pages[page], roff.Replace(what)) {
			t.Errorf("%s does not have %q", page, what)
		}
	}
	for line, node := range leaves(t) {
		noun, _, _ := strings.Cut(line, " ")
		page := "man1/" + program + "-" + noun + ".1"
		wants("man1/"+program+".1", `.B "`+program+"-"+noun+"(1)\"\n")
		wants(page, program+" "+line)
		for _, arg := range node.Positional {
			wants(page, "<"+arg.Name+">")
		}
		for at := node; at.Parent != nil; at = at.Parent {
			for _, flag := range at.Flags {
				if !flag.Hidden {
					wants(page, "--"+flag.Name)
				}
			}
		}
	}
	for name := range topics() {
		wants("man1/"+program+".1", program+"-"+name+"(7)")
		wants("man7/"+program+"-"+name+".7", `.TH "`+strings.ToUpper(program+"-"+name)+`" "7"`)
	}
	wants("man1/"+program+".1", "Default: ~/.local/share/perdure.")
	for name, text := range pages {
		checkRoff(t, name, text)
		if strings.Contains(text, "/secret/place") {
			t.Errorf("%s has what is on this machine", name)
		}
	}
}

// checkRoff checks for the macros of man(7), and for lines and escapes that man would misread.
func checkRoff(t *testing.T, name, text string) {
	t.Helper()
	if title := strings.ToUpper(strings.TrimSuffix(path.Base(name), path.Ext(name))); !strings.HasPrefix(text, `.TH "`+strings.ReplaceAll(title, "-", `\-`)+`" "`+path.Ext(name)[1:]+`"`) {
		t.Errorf("%s does not begin with its title", name)
	}
	request := regexp.MustCompile(`^\.(nf|fi|br|TP|(TH|SH|SS|B)( "[^"]*")+)$`)
	escape := regexp.MustCompile(`\\(e|-|&|\((aq|ga|ha|ti|dq)|\[u[0-9A-F]{4,6}\])`)
	filled := true
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, ".") && !request.MatchString(line), strings.HasPrefix(line, "'"):
			t.Errorf("%s has %q, which is no request", name, line)
		case line == ".nf" || line == ".fi":
			if filled == (line == ".fi") {
				t.Errorf("%s has %s where it is so already", name, line)
			}
			filled = line == ".fi"
		case line == "" && filled:
			t.Errorf("%s has an empty line", name)
		}
		if rest := escape.ReplaceAllString(line, ""); strings.ContainsAny(rest, `\`) || strings.ContainsFunc(rest, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%s has %q, which is not what it looks like", name, line)
		}
	}
	if !filled {
		t.Errorf("%s ends unfilled", name)
	}
}

// TestC15ManRendered writes the pages like a packager, and reads them with the installed programs.
func TestC15ManRendered(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "manuals")
	code, out, talk := command{args: "help --man " + dir}.run(t.Context())
	if code != exitOK || out != "" || !strings.Contains(talk, "man -M "+dir+" perdure") {
		t.Fatalf("exit code %d, %q, %q", code, out, talk)
	}
	files, err := filepath.Glob(filepath.Join(dir, "man[17]", "*.[17]"))
	if err != nil || len(files) < 30 || !slices.Contains(files, filepath.Join(dir, "man1", "perdure-session.1")) {
		t.Fatalf("%v, %v", files, err)
	}
	if code, _, talk = (command{args: "help --man " + dir}).run(t.Context()); code != exitOK {
		t.Errorf("a second time: exit code %d, %q", code, talk)
	}
	for _, file := range files {
		for _, reader := range [][]string{{"groff", "-man", "-ww", "-Tutf8", "-rLL=300n"}, {"mandoc", "-Werror", "-Tutf8", "-Owidth=300"}} {
			rendered(t, reader, file)
		}
	}
}

// rendered checks that a man program prints the summary of each command without warnings. If the
// program is not installed, checkRoff has at least checked the same page.
func rendered(t *testing.T, reader []string, file string) {
	t.Helper()
	found, err := exec.LookPath(reader[0])
	if err != nil {
		return
	}
	var complaints strings.Builder
	read := exec.CommandContext(t.Context(), found, append(reader[1:], file)...)
	read.Env, read.Stderr = append(os.Environ(), "GROFF_NO_SGR=1", "LC_ALL=C.UTF-8"), &complaints
	text, err := read.Output()
	plain := regexp.MustCompile(`.\x08`).ReplaceAllString(string(text), "") // bold is a letter over itself
	if err != nil || complaints.Len() > 0 || !strings.Contains(plain, strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))) {
		t.Errorf("%s: %v: %s\n%s", reader[0], err, complaints.String(), plain)
	}
	if strings.HasSuffix(file, "perdure-session.1") && !strings.Contains(plain, "perdure session list [flags]\n") {
		t.Errorf("%s does not show the commands of %s:\n%s", reader[0], file, plain)
	}
}
