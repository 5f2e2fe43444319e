package shell

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/supervise"
	"github.com/perdure/perdure/tool"
)

// scope is what a confined command may use, as far as a note about a refusal needs to know.
type scope struct {
	workspace string
	home      string // the directory above HOME; empty: one of the run
	advice    string
}

// defaultAdvice is for hosts that have no own.
const defaultAdvice = "An operator can allow {path} with shell.Config.Reads, or choose another shell.Config.Profile."

// defaultSecretAdvice is for hosts that have no own.
const defaultSecretAdvice = "An operator can allow it with a policy for the permission " + tool.UseSecret +
	" of {name}, or in the permissions of the agent."

// note says what the model cannot see in the output of a command: which processes it left behind,
// and which refusals were probably the sandbox's. Empty: nothing.
func (o *output) note(e supervise.Exit, a answer) string {
	notes := []string{leftNote(e), o.scope.refusalNote(e, a)}
	return strings.Join(slices.DeleteFunc(notes, func(n string) bool { return n == "" }), "\n")
}

// leftNote says which processes a command left behind, and how to keep one.
func leftNote(e supervise.Exit) string {
	if e.LeftCount == 0 {
		return ""
	}
	var named []string
	for _, p := range e.Left {
		named = append(named, fmt.Sprintf("%s (pid %d)", p.Name, p.PID))
	}
	if more := e.LeftCount - len(e.Left); more > 0 {
		named = append(named, fmt.Sprintf("%d more", more))
	}
	what, verb := "1 process", "was"
	if e.LeftCount > 1 {
		what, verb = fmt.Sprintf("%d processes", e.LeftCount), "were"
	}
	return fmt.Sprintf("The command left %s running, which %s ended: %s. To keep a process running, start it with "+
		"spawn_background as a command of its own, without &.", what, verb, strings.Join(named, ", "))
}

// How programs report a refusal. The kernel answers a path that a view does not contain as if it
// did not exist.
var (
	refusedWords = regexp.MustCompile(`(?i)permission ?(?:error|denied)|operation not permitted|read-only file system|\b(?:EACCES|EPERM|EROFS)\b`)
	missingWords = regexp.MustCompile(`(?i)no such file or directory|not a git repository|\bENOENT\b`)
	networkWords = regexp.MustCompile(`(?i)could not resolve|name resolution|network is unreachable|\b(?:ENETUNREACH|EAI_AGAIN|ENOTFOUND)\b`)
	kernelWords  = regexp.MustCompile(`(?i)operation not permitted|\bEPERM\b`)
	absolutePath = regexp.MustCompile(`(?:^|[\s'"` + "`" + `(=:])(/[^\s'"` + "`" + `():,;<>|*?]+)`)
)

// refusalNote says which of the refusals in the output are rules of the sandbox. It goes by the
// names alone, so that it reveals nothing about what exists outside.
func (s scope) refusalNote(e supervise.Exit, a answer) string {
	if e.Profile == "" {
		return ""
	}
	text := a.Stderr
	if e.Code != 0 {
		text += "\n" + a.Stdout
	}
	f := s.findRefusals(e, text)
	switch {
	case len(f.paths) > 0:
		return s.pathNote(e, f.paths)
	case e.Code == 0:
		return ""
	case f.kernel:
		return fmt.Sprintf("The sandbox (profile %s) permits no mounts, no namespaces, no tracing and no signals to other "+
			"processes, no change of owners or of the system. If that was refused, it was by this rule. %s", e.Profile, s.advise("it"))
	case f.other && !e.HasView:
		return fmt.Sprintf("On this machine the sandbox (profile %s) cannot give commands a /tmp, a /dev/shm and local sockets "+
			"of their own; perdure doctor says why. If one of these was refused, it was by this rule. %s", e.Profile, s.advise("it"))
	case f.network && e.Profile == string(supervise.ProfileIsolated):
		return "The sandbox (profile isolated) gives commands no network. It is chosen with the profile, or because the hosts " +
			"that tools may reach are restricted. " + s.advise("the network")
	}
	return ""
}

// refusals is what a command's output says about refusals.
type refusals struct {
	paths   []string // outside the sandbox, sorted
	kernel  bool     // of a function of the kernel
	network bool
	other   bool // without a path
}

func (s scope) findRefusals(e supervise.Exit, text string) (f refusals) {
	for line := range strings.Lines(text) {
		refused := refusedWords.MatchString(line)
		if !refused && !(e.HasView && missingWords.MatchString(line)) {
			f.network = f.network || networkWords.MatchString(line)
			continue
		}
		found := s.outside(line, refused, e.HasView)
		f.paths = append(f.paths, found...)
		if len(found) == 0 && refused {
			f.other = true
			f.kernel = f.kernel || kernelWords.MatchString(line)
		}
	}
	slices.Sort(f.paths)
	f.paths = slices.Compact(f.paths)
	return f
}

// pathNote says which paths are outside of the sandbox.
func (s scope) pathNote(e supervise.Exit, paths []string) string {
	const most = 3
	shown := paths[:min(len(paths), most)]
	temporary := "$TMPDIR (/tmp itself is not writable on this machine)"
	if e.HasView {
		temporary = "/tmp"
	}
	return fmt.Sprintf("The sandbox (profile %s) does not allow %s: commands write only to their working directory, $HOME and %s, "+
		"and read only these, the programs and libraries of the system, and what the operator added. %s",
		e.Profile, strings.Join(shown, ", "), temporary, s.advise(shown[0]))
}

// advise returns the advice about something that was refused.
func (s scope) advise(refused string) string { return strings.ReplaceAll(s.advice, "{path}", refused) }

// outside returns the absolute paths of a line that the command may not use: not write if it was
// refused, or not see.
func (s scope) outside(line string, refused, hasView bool) []string {
	system := []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/etc", "/nix", "/gnu", "/proc"}
	allowed := []string{s.workspace, s.home, "/dev"}
	if hasView {
		allowed = append(allowed, "/tmp", "/var/tmp")
	}
	if !refused {
		allowed = append(allowed, system...)
	}
	var paths []string
	for _, m := range absolutePath.FindAllStringSubmatchIndex(line, -1) {
		path := filepath.Clean(line[m[2]:m[3]])
		// A shell begins its messages with its own path.
		isProgram := m[2] == 0 && isBelowAny(system, path)
		if path != "/" && !isProgram && !isBelowAny(allowed, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

func isBelowAny(dirs []string, path string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && isBelow(dir, path) })
}

// isBelow reports whether path is dir or below it, going by the names alone.
func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
