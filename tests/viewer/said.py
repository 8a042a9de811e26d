"""What a screen reader says of a page: the tree that Chromium gives it, as lines of text."""
import json
import os
import re

STATES = ('pressed', 'disabled', 'expanded', 'checked', 'selected', 'live', 'valuemin', 'valuemax')
SILENT = {'generic', 'none', 'InlineTextBox', 'LineBreak', 'LabelText', 'MenuListPopup'}


def line_of(node):
    """Its role, what it is called, what is said besides, and how it stands."""
    parts = [node['role']['value']]
    for name in ('name', 'value', 'description'):
        words = node.get(name, {}).get('value', '')
        if words != '':
            parts.append(json.dumps(words, ensure_ascii=False) if name == 'name' else f'{name} {words}')
    states = {one['name']: one['value'].get('value') for one in node.get('properties', [])}
    parts += [f'{name} {states[name]}' for name in STATES if name in states]
    parts += ['focusable'] if states.get('focusable') else []
    # A fraction says more about the data than about the words; other tests look at those.
    return re.sub(r'−?\d+(\.\d+)+(e-?\d+)?|\d+(?= ms)', '#', ' '.join(map(str, parts)))


def lines(tab, selector):
    """Of the elements of this selector, in order, and of all that they contain."""
    document = tab.call('DOM.getDocument', depth=0)['root']['nodeId']
    wanted = [tab.call('DOM.describeNode', nodeId=one)['node']['backendNodeId']
              for one in tab.call('DOM.querySelectorAll', nodeId=document, selector=selector)['nodeIds']]
    nodes = {node['nodeId']: node for node in tab.call('Accessibility.getFullAXTree')['nodes']}
    found = []

    def visit(node, depth, above):
        role, name = node['role']['value'], node.get('name', {}).get('value', '')
        if not node.get('ignored') and role not in SILENT and (role, name) != ('StaticText', above):
            line = '  ' * depth + line_of(node)
            if role == 'StaticText' and found and found[-1].startswith('  ' * depth + 'StaticText'):
                found[-1] = found[-1][:-1] + line.split('"', 1)[1]  # a sentence with words in bold
            else:
                found.append(line)
            depth, above = depth + 1, name
        if role != 'button':  # whose words are its name
            for child in node.get('childIds', []):
                if child in nodes:
                    visit(nodes[child], depth, above)

    for backend in wanted:
        for node in nodes.values():
            if node.get('backendDOMNodeId') == backend:
                visit(node, 0, '')
    return found


def expect(test, known, parts):
    """Each part has its lines in the file `known`, which POLYHEAD_ACCEPT=1 in the environment writes."""
    text = ''.join(f'=== {name}\n' + '\n'.join(found) + '\n\n' for name, found in parts.items())
    if 'POLYHEAD_ACCEPT' in os.environ:
        known.write_text(text)
    test.maxDiff = None
    test.assertEqual(known.read_text().splitlines(), text.splitlines(), 'if that is meant, POLYHEAD_ACCEPT=1 writes it')
