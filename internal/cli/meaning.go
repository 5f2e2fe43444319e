package cli

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/cli/man"
)

// commandsMeant are the words that users of other command lines type for a command, which similar
// letters do not find: deny is no demo. Words that are commands themselves are not looked up.
func commandsMeant() map[string]string {
	return map[string]string{
		"accept": "approve", "allow": "approve", "yes": "approve",
		"deny": "approval deny", "reject": "approval deny", "refuse": "approval deny", "decline": "approval deny",
		"ask": "run", "chat": "run", "exec": "run", "prompt": "run", "talk": "run",
		"send": "session send", "say": "session send", "message": "session send", "new": "session new",
		"create": "session new", "continue": "session resume", "unpause": "session resume", "resume": "session resume",
		"pause": "session pause", "hold": "session pause", "fork": "session fork", "export": "session export",
		"import": "session import", "rename": "session rename", "conversation": "session list",
		"interrupt": "session interrupt", "abort": "cancel", "kill": "cancel", "end": "cancel", "terminate": "cancel",
		"stop": "cancel", "status": "ps", "top": "ps", "list": "ps", "ls": "ps", "show": "ps", "inbox": "ps",
		"jobs": "task list", "job": "task list", "work": "task list", "watch": "task watch", "tail": "event tail",
		"follow": "event tail", "output": "log", "logs": "log", "history": "event list", "journal": "event list",
		"replay": "event replay", "cron": "schedule create", "timer": "schedule create", "every": "schedule create",
		"start": "serve", "server": "serve", "up": "serve", "daemon": "serve", "web": "ui",
		"dashboard": "ui", "develop": "dev", "reload": "dev", "init": "tool init", "scaffold": "tool init", "backup": "admin backup",
		"restore": "admin restore", "verify": "admin verify", "fsck": "admin verify", "migrate": "admin migrate",
		"upgrade": "admin migrate", "gc": "admin gc", "clean": "admin gc", "cleanup": "admin gc", "prune": "admin gc",
		"login": "provider set", "key": "provider set", "keys": "provider set", "auth": "token create",
		"usage": "cost report", "spend": "cost report", "costs": "cost report", "price": "cost report",
		"limit": "budget set", "limits": "help limits", "quota": "budget set", "check": "doctor", "health": "doctor",
		"diagnose": "doctor", "settings": "config list", "set": "config list", "env": "help environment",
		"host": "egress allow", "hosts": "egress list", "network": "egress list", "hook": "webhook create",
		"curl": "api", "http": "api", "request": "api", "man": "help", "docs": "help",
	}
}

// verbsMeant are verbs of other command lines, with the verbs that nouns of this one have for them,
// in the order in which they are suggested.
func verbsMeant() map[string][]string {
	ends := []string{"delete", "rm", "remove", "revoke", "release", "cancel"}
	makes := []string{"create", "new", "add", "apply", "set", "put"}
	shows := []string{"show", "get", "cat", "report"}
	return map[string][]string{
		"rm": ends, "del": ends, "delete": ends, "remove": ends, "drop": ends, "destroy": ends, "unset": ends,
		"ls": {"list"}, "ps": {"list"}, "all": {"list"}, "get": shows, "describe": shows, "inspect": shows, "info": shows,
		"view": shows, "cat": shows, "read": shows, "status": shows, "open": shows,
		"add": makes, "make": makes, "create": makes, "new": makes, "start": {"new", "create", "resume"},
		"edit": {"change", "apply", "set", "rename"}, "update": {"change", "apply", "set"}, "modify": {"change", "apply", "set"},
		"stop": {"cancel", "interrupt", "pause"}, "kill": {"cancel", "interrupt"}, "abort": {"cancel", "interrupt"},
		"end": {"cancel", "interrupt"}, "disable": {"pause", "change"}, "enable": {"resume", "change"},
		"logs": {"log"}, "output": {"log"}, "tail": {"watch", "log", "tail"}, "follow": {"watch", "tail"},
		"reject": {"deny"}, "refuse": {"deny"}, "accept": {"approve"}, "allow": {"approve", "allow"},
		"answer": {"input"}, "reply": {"input"}, "say": {"send", "message"}, "run": {"trigger", "call", "send"},
		"fire": {"trigger"}, "move": {"mv"}, "copy": {"get", "put", "fork"}, "search": {"grep"}, "find": {"grep", "list"},
		"download": {"get", "export"}, "upload": {"put", "import"}, "block": {"deny"}, "check": {"test"}, "ping": {"test"},
	}
}

// unexpectedWord is how kong reports a word that is no command.
var unexpectedWord = regexp.MustCompile(`^unexpected argument (\S+)`)

// meant returns the message of an error of the parser. A word that is no command gets the command
// that it means, where that is known; otherwise kong's guess by its letters stays.
func (a commandParser) meant(err error) string {
	message := err.Error()
	found := unexpectedWord.FindStringSubmatch(message)
	var parse *kong.ParseError
	if found == nil || !errors.As(err, &parse) || parse.Context == nil {
		return message
	}
	word := strings.TrimSuffix(found[1], ",")
	at := parse.Context.Selected()
	if at == nil {
		if command := commandsMeant()[strings.ToLower(word)]; command != "" {
			return `there is no command "` + word + `", did you mean "` + command + `"?`
		}
		return message
	}
	for _, verb := range verbsMeant()[strings.ToLower(word)] {
		if slices.ContainsFunc(at.Children, func(n *kong.Node) bool { return n.Name == verb && !n.Hidden }) {
			return `there is no command "` + man.Path(at) + " " + word + `", did you mean "` + man.Path(at) + " " + verb + `"?`
		}
	}
	return message
}
