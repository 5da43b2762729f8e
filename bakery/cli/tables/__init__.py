"""Tables and text for people, rendered with rich: functions return renderables and strings, the commands print them.

Text that comes from a wheel or a build is shown as it is, never interpreted as markup.
"""
