package complete

import "strings"

// Files is the line that tells a script to complete a path.
const Files = ":files"

// Script returns the completion script of a shell. The scripts call `perdure __complete`, which
// prints one line per completion: the word, a tab, and a description.
func Script(shell, program string) string {
	text := map[string]string{"bash": bash, "zsh": zsh, "fish": fish, "pwsh": pwsh}[shell]
	return strings.ReplaceAll(text, "PROGRAM", program)
}

const bash = `# bash completion for PROGRAM:  source <(PROGRAM completion bash)
_PROGRAM() {
	local line cur="${COMP_WORDS[COMP_CWORD]}"
	COMPREPLY=()
	while IFS= read -r line; do
		if [[ $line == ":files" ]]; then
			compopt -o default 2>/dev/null
			continue
		fi
		COMPREPLY+=("${line%%$'\t'*}")
	done < <(PROGRAM __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == --*= ]]; then
		compopt -o nospace 2>/dev/null
	fi
}
complete -F _PROGRAM PROGRAM
`

const zsh = `#compdef PROGRAM
# zsh completion for PROGRAM:  source <(PROGRAM completion zsh)
_PROGRAM() {
	local line
	local -a found
	for line in "${(@f)$(PROGRAM __complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
		if [[ $line == ":files" ]]; then
			_files
		elif [[ -n $line ]]; then
			found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
		fi
	done
	(( ${#found} )) && _describe PROGRAM found
}
if [[ ${funcstack[1]} == _PROGRAM ]]; then
	_PROGRAM "$@"
else
	compdef _PROGRAM PROGRAM
fi
`

const fish = `# fish completion for PROGRAM:  PROGRAM completion fish | source
function __PROGRAM_complete
	set -l words (commandline -opc) (commandline -ct)
	for line in (PROGRAM __complete -- $words[2..-1] 2>/dev/null)
		if test "$line" = ":files"
			__fish_complete_path (commandline -ct)
		else
			echo $line
		end
	end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
`

const pwsh = `# PowerShell completion for PROGRAM:  PROGRAM completion pwsh | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName PROGRAM -ScriptBlock {
	param($wordToComplete, $commandAst, $cursorPosition)
	$words = @($commandAst.CommandElements | Where-Object { $_.Extent.StartOffset -lt $cursorPosition } | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
	$new = if ($wordToComplete -eq '') { @('--new') } else { @() }
	PROGRAM __complete @new '--' @words 2>$null | Where-Object { $_ -ne ':files' } | ForEach-Object {
		$text, $about = $_ -split "` + "`" + `t", 2
		if (-not $about) { $about = $text }
		[System.Management.Automation.CompletionResult]::new($text, $text, 'ParameterValue', $about)
	}
}
`
