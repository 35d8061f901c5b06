"""Takes out of a line what it only quotes: searched for, written in a program or rule, tested, over, or advised for a case."""

from runbooks.triage.seldom import Seldom

_PLACE = (
    r"(?:> ?)*(?:[\w./-]+\.(?:py|pyx|go|rs|cc|cpp|cu|h|sh|js|ts|java):\d+(?::\d+)?[:-]\s*|\d+\s*[:|]\s+|[+-]\s{2,})?"
)
_CODE = (
    r"raise [\w.]+\(|(?:if|elif|while|assert) [^\"']*[\"'].*:\s*$|except\b[^\"']*:\s*$|case [\"'].*[:)]\s*$"
    r"|(?:self\.)?_?log(?:ger|ging)?\.(?:debug|info|warn|warning|error|exception|critical|fatal)[fw]?\("
    r"|(?:print|fprintf|printf|panic|throw new \w+)\((?:stderr, ?)?f?[\"']|return (?:f|fmt\.Errorf\(|errors\.New\()?[\"']"
    r"|from [\w.]+ import \w|import [\w.]+\s*(?:as \w+\s*)?$"
)
QUOTED = Seldom(
    r"\b[efz]?grep\b(?:\s+-[\w=-]+)*\s+(?:'[^']*'|\"[^\"]*\")|\b(?:rg|ack|journalctl)(?:\s+-[\w=-]+)+\s+(?:'[^']*'|\"[^\"]*\")"
    r"|\bawk\s+'[^']*'|\bsed\s+(?:-\w+\s+)*'[^']*'"  # typed commands
    r"|\b[Ii]f (?:you|we) (?:ever )?(?:see|get|hit|encounter|run into|face|receive)\b.*"
    r"|\b(?:[Nn]o(?: more| further| such)?|[Nn](?:either|or)|[Ww]ithout(?: any)?|[Nn]ever (?:saw|see|says?)"
    r"|(?:did|do|does)(?: not|n't) (?:see|find|say|show)) (?:\"[^\"]*\"|'[^']*'|`[^`]*`)"
    r"|\b(?:[Ii]f|[Ww]hen(?:ever)?|[Ss]hould) (?:(?:there (?:is|are)|an?|the|two) |`)[^.]{0,80}, (?:please )?(?:look|check|drain|restart"
    r"|ask|see|call|open|reboot|use|run|read|start|stop|kill|do not|don't|make sure)\b.*"  # advice for a case
    r"|\b(?:[Cc]an|[Cc]ould|[Mm]ay|[Mm]ight|[Ss]hould|[Ww]ould) (?:an?|the|it|we|I|two|one|several|more|this|that)\b[^.?!]*\?"  # a question
    r"|\b(?:case|tests?|scenario|alert|rule|page|section|chapter) (?:for |of |named |called )?(?:\"[^\"]*\"|`[^`]*`)"
    r"|\b[Ii]n case (?:you (?:see|get)|of) [\"'`].*"
    rf"|^\s*{_PLACE}(?:{_CODE}).*"
    r"|^\s*(?:-\s+)?(?:regex|pattern|match(?:_re)?|expr|contains|grep|filter)\s*:\s+\S.*"  # rules of alerts and filters
    r"|^\s*-\s+alert:\s+\w+\s*$"
    r"|^(?: {4}|[0-9a-f]{7,40} )(?:[Ff]ix(?:ed|es)?|[Hh]andle|[Aa]void|[Pp]revent|[Ww]ork around|[Cc]atch|[Rr]etry) .*"
    r"|^.*(?:\.{3,}|\|)\s*(?:Healthy|OK|Ok|Pass(?:ed)?|PASS(?:ED)?|Not (?:[Dd]etected|Active)|None|No Error)\s*\|?\s*$"  # checks passed
    r"|^[A-Za-z_:][\w:]*\{[^}]*\} 0(?:\.0+)?(?: \d+)?\s*$|^# (?:HELP|TYPE) \w+ .*|.*\{\{ ?\$(?:labels|value).*"  # metrics of 0
    r"|^(?:PASSED|SKIPPED|XFAIL)\b.*|^\S+::\S+ (?:PASSED|SKIPPED|XFAIL)\b.*"
    r"|^\s*(?:INFO:?\s+)?\[?(?:RESOLVED|resolved|Resolved)(?::\d+)?\]?:?\s.*"
    r"|^\s*[-*]\s+(?:\w+: )?[Ff]ix(?:ed|es)?\b.*\(#\d+\)\s*$"
    r"|^\s*[-*]\s+(?:Fixed|Added|Changed|Removed|Deprecated|Improved|Docs|Documentation)(?:\([\w-]+\))?: .*"  # a list of changes
)


def without_quotes(text: str) -> str:
    """What the line itself says."""
    return QUOTED.cut_out(text)
